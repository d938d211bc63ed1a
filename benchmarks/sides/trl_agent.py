"""The quickstart's reinforcement learning by TRL: its trainer and generation.

  PYTHON -m benchmarks.sides.trl_agent SETTINGS.json

The environment, its episodes and the held-out tasks are those of arl; a
`rollout_func` plays them with an engine that is `generate` of transformers.
Success on held-out tasks is written before the first batch and after each few,
an object a line:

  {"batch": 2, "sampled": 0.5, "greedy": 0.6}

SETTINGS.json has `model`, `seed`, `every`, `batches`, `config` (the argument of
experiments/quickstart.py) and `out`, the file to write to.
"""

import json
import math
import os
import pathlib
import sys
from typing import Any

import datasets
import numpy as np
import torch
import transformers
import trl

from arl import episode
from arl.envs import base
from arl.evaluate import summary
from arl.models import tokenizers
from arl.rollout import chat as chat_lib
from arl.rollout import engine, strategies
from arl.train import build, evaluation
from experiments import quickstart


class Generate:
  """An engine of the house contract around a model of transformers."""

  def __init__(self, model: Any, pad: int):
    self._model, self._pad = model, pad

  def generate(self, requests, sampling):
    """Continues every request; log-probs are not told, and stand at 0."""
    width = max(len(one.tokens) for one in requests)
    ids = np.full((len(requests), width), self._pad)
    for row, one in zip(ids, requests):
      row[width - len(one.tokens) :] = one.tokens
    lengths = np.array([[len(one.tokens)] for one in requests])
    seen = np.arange(width)[None] >= width - lengths
    training = self._model.training
    self._model.eval()
    with torch.no_grad():
      made = self._model.generate(
        torch.tensor(ids),
        attention_mask=torch.tensor(seen.astype(np.int64)),
        max_new_tokens=max(one.max_tokens for one in requests),
        do_sample=sampling.temperature > 0,
        temperature=sampling.temperature or None,
        top_k=0,
        top_p=1.0,
        eos_token_id=list(sampling.stop),
        pad_token_id=self._pad,
      )
    self._model.train(training)
    rows = made[:, width:].numpy()
    return [
      self._sample(row, one, sampling) for row, one in zip(rows, requests)
    ]

  def _sample(self, row, request, sampling):
    row = row[: request.max_tokens].astype(np.int32)
    ends = np.flatnonzero(np.isin(row, sampling.stop))
    if len(ends):
      row = row[: ends[0] + 1]
    return engine.Sample(
      tokens=row,
      logp=np.zeros(len(row), np.float32),
      finish=engine.STOP if len(ends) else engine.LENGTH,
      versions=np.zeros(len(row), np.int32),
    )


class Play:
  """Plays episodes of the quickstart with TRL's current model."""

  def __init__(self, config: Any, tokenizer: Any):
    self.config, self._pad = config, tokenizer.pad_token_id
    self._env = build.named(config.env, 'arl.envs')
    self._chat = chat_lib.chat(
      tokenizer, observation_role=config.rollout.observation_role
    )
    self._limits = build.limits(config)

  def __call__(self, model, split: str, indices, samples: int, sampling):
    """Episodes of the tasks of these indices, those of a task together."""
    plan = strategies.Plan(samples, sampling, self._limits, ())
    tasks = [self._env.task(split, index) for index in indices]
    return strategies.multi_turn(
      Generate(model, self._pad), self._env, self._chat, tasks, plan
    )

  def rollout(self, prompts, trainer):
    """TRL's `rollout_func`: a prompt is the index of a task."""
    samples = self.config.prompts.samples
    indices = [int(p) for p in prompts[::samples]]
    sampling = engine.Sampling(temperature=self.config.rollout.temperature)
    made = self(trainer.model, base.TRAIN, indices, samples, sampling)
    first = [int(np.argmax(one.mask)) for one in made]
    rows = lambda part: [part(one, n) for one, n in zip(made, first)]
    return {
      'prompt_ids': rows(lambda one, n: one.tokens[:n].tolist()),
      'completion_ids': rows(lambda one, n: one.tokens[n:].tolist()),
      'env_mask': rows(lambda one, n: one.mask[n:].astype(int).tolist()),
      'logprobs': None,
      'earned': [episode.total_reward(one) for one in made],
    }


class Watch(transformers.TrainerCallback):
  """Evaluates on held-out tasks as arl does, and writes it down."""

  def __init__(self, play: Play, every: int, out: pathlib.Path):
    self._play, self._every, self._out = play, every, out

  def on_train_begin(self, args, state, control, model=None, **kwargs):
    self.on_step_end(args, state, control, model, **kwargs)

  def on_step_end(self, args, state, control, model=None, **kwargs):
    del args, control, kwargs
    batch, rest = divmod(state.global_step, self._play.config.updates.per_batch)
    if rest or batch % self._every:
      return
    config, told = self._play.config, {'batch': batch}
    ways = evaluation.variants(config.rollout.temperature)
    for name, sampling in ways.items():
      tasks = range(config.eval.tasks)
      seen = self._play(model, base.HELD_OUT, tasks, 1, sampling)
      told[name] = summary.success(seen)['success']
    with self._out.open('a') as file:
      file.write(json.dumps(told) + '\n')


def arguments(config: Any, folder: str, seed: int, batches: int) -> Any:
  """TRL's settings of the same recipe: DAPO's loss, AdamW, the same sizes."""
  rows = config.prompts.batch * config.prompts.samples
  per_batch, tx = config.updates.per_batch, config.optimizer
  return trl.GRPOConfig(
    output_dir=folder,
    per_device_train_batch_size=rows // per_batch,
    steps_per_generation=per_batch,
    num_generations=config.prompts.samples,
    max_completion_length=config.rollout.context,
    max_steps=batches * per_batch,
    loss_type='dapo',
    epsilon=config.method.low,
    epsilon_high=config.method.high,
    beta=0.0,
    scale_rewards='group',
    temperature=config.rollout.temperature,
    top_p=1.0,
    top_k=0,
    learning_rate=tx.lr,
    warmup_steps=tx.warmup,
    lr_scheduler_type='constant_with_warmup',
    optim='adamw_torch',
    adam_beta1=tx.b1,
    adam_beta2=tx.b2,
    weight_decay=tx.weight_decay,
    max_grad_norm=tx.max_norm,
    gradient_checkpointing=False,
    bf16=False,
    use_cpu=True,
    seed=seed,
    report_to=[],
    save_strategy='no',
    logging_strategy='no',
    disable_tqdm=True,
  )


def main() -> None:
  settings = json.loads(pathlib.Path(sys.argv[1]).read_text('utf-8'))
  torch.set_num_threads(os.cpu_count() or 1)
  transformers.set_seed(settings['seed'])
  config = quickstart.get_config(settings['config'])
  tokenizer = tokenizers.load(settings['model'])
  play = Play(config, tokenizer)
  count = math.ceil(settings['batches'] * config.prompts.batch)
  trainer = trl.GRPOTrainer(
    model=transformers.AutoModelForCausalLM.from_pretrained(
      settings['model'], dtype=torch.float32
    ),
    reward_funcs=lambda earned, **_: earned,
    args=arguments(
      config,
      settings['out'] + '.trl',
      settings['seed'],
      settings['batches'],
    ),
    train_dataset=datasets.Dataset.from_dict(
      {'prompt': [str(i) for i in range(count)]}
    ),
    processing_class=tokenizer,
    rollout_func=play.rollout,
    callbacks=[Watch(play, settings['every'], pathlib.Path(settings['out']))],
  )
  trainer.train()


if __name__ == '__main__':
  main()
