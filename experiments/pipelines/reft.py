"""ReFT: a supervised warm-up, then PPO with a little for wrong answers.

  python -m launch.pipeline --config=experiments/pipelines/reft.py \
    --workdir=runs/pipelines/reft

Luong et al., arXiv:2401.08967: the KL to the warm-up is in the reward, and an
answer that can be read earns 0.1 even if it is wrong.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  tuned = parts.trained(chosen, 40, '{warm_up}/final', 'reft')
  tuned['config'].reward.terms = {
    'partial': {'name': 'partial.answered', 'weight': 0.1}
  }
  return parts.pipeline(
    'ReFT', warm_up=parts.demonstrated(chosen, 600), reft=tuned
  )
