"""Retrospective SFT: failures are told again from their first wrong step.

  python -m launch.pipeline --config=experiments/pipelines/retrospective.py \
    --workdir=runs/pipelines/retrospective

Surveys tell it of WebRL (arXiv:2411.02337). The demonstrator, who knows what
the task hides, writes what would have been better, and only that is learnt.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  told = parts.sampled(chosen, 6, '{start}/final', 'select.everything')
  if not chosen['quick']:
    told['config'].rollout.strategy = 'retrospective.rewritten'
  return parts.pipeline(
    'retrospective imitation',
    start=parts.demonstrated(chosen, 600),
    retold=told,
    learnt=parts.imitated(chosen, 150, '{start}/final', 'retold'),
  )
