"""Two specialists become one student.

  python -m launch.pipeline --config=experiments/pipelines/specialists.py \
    --workdir=runs/pipelines/specialists

Two teachers learn by reinforcement, each in an environment of its own, sums and
look-ups in one and look-ups behind pointers in the other, and one student is
distilled from both on its own words, each prompt given to the teacher of its
part: on-policy cross-stage distillation as in GLM-5 (arXiv:2602.15763), whose
teachers are earlier stages of one model.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  near, far = ({**parts.TOOLS, 'max_hops': hops} for hops in (0, 2))
  student = parts.trained(chosen, 20, '{start}/final')
  config = student['config']
  config.env = {'name': 'mixture.make', 'parts': {'near': near, 'far': far}}
  config.method = {'name': 'distillation.opd'}
  config.model.teacher = 'near={near}/final,far={far}/final'
  config.prompts.select = 'select.everything'
  return parts.pipeline(
    'Two specialists, one student',
    start=parts.demonstrated(chosen, 600),
    near=parts.trained(chosen, 30, '{start}/final', max_hops=0),
    far=parts.trained(chosen, 30, '{start}/final', max_hops=2),
    student=student,
  )
