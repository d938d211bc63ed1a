"""Sparse-to-Dense: sparse rewards for a teacher, dense ones for its student.

  python -m launch.pipeline --config=experiments/pipelines/sparse_to_dense.py \
    --workdir=runs/pipelines/sparse_to_dense

arXiv:2605.12483: the rewards of the task go to a strong model by reinforcement
learning; the student first imitates what that teacher says, which is forward
KL, then learns from what it says of the student's own words, on-policy
distillation, and last from rewards itself. The student begins as a model that
has imitated less than the teacher had.

Arguments: seed=N; quick (a smoke run, learns nothing).
"""

from experiments.pipelines import parts


def get_config(arg: str | None = None):
  chosen = parts.parse(arg)
  distilled = parts.trained(chosen, 15, '{warm_up}/final')
  distilled['config'].method = {'name': 'distillation.opd'}
  distilled['config'].model.teacher = '{teacher}/final'
  distilled['config'].prompts.select = 'select.everything'
  keep = 'rejection.verified_once'
  return parts.pipeline(
    'Sparse-to-Dense',
    teacher_start=parts.demonstrated(chosen, 900),
    teacher=parts.trained(chosen, 40, '{teacher_start}/final'),
    rollouts=parts.sampled(chosen, 1, '{teacher}/final', keep),
    student_start=parts.demonstrated(chosen, 450),
    warm_up=parts.imitated(chosen, 10, '{student_start}/final', 'rollouts'),
    distilled=distilled,
    student=parts.trained(chosen, 15, '{distilled}/final'),
  )
