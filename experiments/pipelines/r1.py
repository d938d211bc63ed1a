"""The four stages of DeepSeek-R1, small.

  python -m launch.pipeline --config=experiments/pipelines/r1.py \
    --workdir=runs/pipelines/r1

arXiv:2501.12948, 2.3: a cold start on a few good conversations; reinforcement
learning on reasoning alone, which here are questions of one pointer; rejection
sampling on all prompts, and supervised learning of what it kept, from the base
again; reinforcement learning on all prompts. The base has imitated a
demonstrator who mostly guesses. Left out: general data, which this task does
not have, and rewards of language and preference.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  cold = parts.demonstrated(chosen, 40, '{base}/final', guess=0.0, fault=0.0)
  cold['config'].prompts.size = 256
  keep = 'rejection.verified'
  return parts.pipeline(
    'R1',
    base=parts.demonstrated(chosen, 600),
    cold_start=cold,
    reasoning=parts.trained(chosen, 20, '{cold_start}/final', max_hops=1),
    sampled=parts.sampled(chosen, 6, '{reasoning}/final', keep),
    refined=parts.imitated(chosen, 150, '{base}/final', 'sampled'),
    all_prompts=parts.trained(chosen, 20, '{refined}/final'),
  )
