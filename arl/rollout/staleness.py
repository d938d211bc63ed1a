"""How far rollouts may run ahead of the trainer: AReaL's gate (2505.24298).

An update takes `per_update` samples, the first of version 0. Samples are issued
only while those accepted and those running fit into the updates up to `lag`
versions ahead, so that one that is trained on in the order of issue was begun
with weights at most `lag` versions old. That order is part of it: a slow sample
that others overtake grows older than that, whatever the gate does. So what is
about to be too old is found here as well (`stale`), to be given up.

A rollout that crosses versions counts by the version it began with.
"""


def capacity(
  version: int,
  accepted: int,
  running: int,
  *,
  per_update: int,
  concurrent: int,
  lag: int,
) -> int:
  """How many more samples may be issued now; 0 or more.

  Args:
    version: of the weights: how many updates were made.
    accepted: samples trained on so far, and finished ones that wait for it.
      Those that failed, were filtered out or given up do not count.
    running: samples issued that have not ended.
    per_update: samples of an update, 1 or more.
    concurrent: the most that run at a time.
    lag: versions that rollouts may be behind; 0 is synchronous.
  """
  room = (lag + version + 1) * per_update - (accepted + running)
  return max(min(concurrent - running, room), 0)


def restored(version: int, per_update: int) -> int:
  """What counts as accepted after a checkpoint of a version was restored."""
  return version * per_update


def stale(began: int, version: int, lag: int) -> bool:
  """Whether a sample is too old for the update of a version.

  Args:
    began: the version that it, or its oldest token, was sampled with.
    version: that the update starts from.
    lag: versions that it may be behind.
  """
  return version - began > lag
