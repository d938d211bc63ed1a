"""Imitation of a model's episodes in a file, judged on the quickstart's task.

For experiments.studies.distillation, as a config of launch.sft. Arguments:
model=DIR; data=FILE, of launch.sample; quick.
"""

from collections.abc import Sequence

from arl import episode
from arl.models import tokenizers
from experiments import common, quickstart_sft


def spoken(groups: Sequence[episode.Group]) -> list[episode.Group]:
  """Drops episodes with an action that is empty or spells a special token.

  What was sampled as ids cannot be told apart from text in a file.
  """
  plain = lambda text: (
    text.strip() and not any(marker in text for marker in tokenizers.MARKERS)
  )
  made = []
  for group in groups:
    kept = [
      e for e in group.episodes if all(plain(x.action) for x in e.exchanges)
    ]
    if kept:
      made.append(group._replace(episodes=kept))
  return made


def get_config(arg: str | None = None):
  chosen = common.parse(arg, model='', data='', quick=False)
  config = quickstart_sft.get_config('quick' if chosen['quick'] else '')
  judged = config.env.to_dict()
  config.model.update(path=chosen['model'], size='')
  config.env = {
    'name': 'conversations.make',
    'path': chosen['data'],
    'held_out': 0,
    'weights': {'tools': 1.0},  # the kind of all its records
    'judged': judged,
  }
  config.rollout.strategy = 'conversations.whole'
  config.rollout.context = 144  # a cut episode has no end of its own
  config.prompts.batch = 128
  config.optimizer.update(lr=5e-4, warmup=10, decay=0)
  if chosen['quick']:
    config.prompts.batch = 4
    return config
  config.steps = 30  # three times over what was sampled
  config.eval.update(every=1000, tasks=1, final_tasks=256)
  config.checkpoint.every = 1000
  return config
