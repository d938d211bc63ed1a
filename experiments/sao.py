"""Single rollouts, asynchronously, with a critic in place of a group (SAO).

  python -m launch.train --config=experiments/sao.py:model=DIR \
    --workdir=runs/sao

where DIR is the `final` folder of experiments/quickstart_sft.py. As in
arXiv:2607.07508: one rollout a prompt, so that none waits for others of a
group; advantages from a critic, over the policy's own tokens; one ratio to the
sampler, cut on both sides. The critic has a trunk of its own whose attention is
frozen, learns twice for each update of the policy, and alone for the first ten
batches. On the quickstart's task, with 256 rollouts a batch.

Arguments: model=DIR; quick (a minute's smoke run, learns nothing).
"""

from experiments import common, quickstart, recipes

_ALONE = 10  # batches


def get_config(arg: str | None = None):
  chosen = common.parse(arg, model='runs/quickstart/sft/final', quick=False)
  quick = ',quick' if chosen['quick'] else ''
  config = quickstart.get_config(f'model={chosen["model"]}{quick}')
  config.steps += 0 if chosen['quick'] else _ALONE
  config.method = recipes.METHODS['sao']
  rollouts = config.prompts.batch * config.prompts.samples
  config.rollout.update(
    strategy='asynchronous.multi_turn', ahead=2, window=2 * rollouts
  )
  config.prompts.update(
    batch=rollouts,
    samples=1,
    in_flight=rollouts,
    select='select.everything',
  )
  config.model.critic = 'own'
  config.updates.update(
    epochs=2, per_batch=1, frozen='value_head/trunk/layers/.*/attention/.*'
  )
  config.optimizer = {
    'name': 'optimizers.critic_first',
    'base': config.optimizer.to_dict(),
    'every': 2,
    'alone': 2 if chosen['quick'] else 2 * _ALONE,
  }
  return config
