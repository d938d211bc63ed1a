"""Rejection-sampling fine-tuning: imitate one's own right answers, twice.

  python -m launch.pipeline --config=experiments/pipelines/rft.py \
    --workdir=runs/pipelines/rft

Yuan et al., arXiv:2308.01825: of k answers to a prompt those that are right are
kept, no two alike, and are imitated by the model that the sampling began with.
Here it is done in rounds, each sampled from the last.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  keep = 'rejection.verified'
  return parts.pipeline(
    'rejection-sampling fine-tuning',
    start=parts.demonstrated(chosen, 600),
    sampled=parts.sampled(chosen, 6, '{start}/final', keep),
    rft=parts.imitated(chosen, 150, '{start}/final', 'sampled'),
    again=parts.sampled(chosen, 6, '{rft}/final', keep),
    rft_again=parts.imitated(chosen, 150, '{rft}/final', 'again'),
  )
