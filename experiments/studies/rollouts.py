"""What strategies of rollouts claim, each on its toy: four studies in turn.

  python -m experiments.studies.rollouts [--quick] [--workdir=DIR] [--seeds=N]

Which prompts are chosen and which groups kept (`choosing`), what is waited for
and where requests go (`scheduling`), going back into rollouts (`retrying`), and
steering and branching them (`steering`). Each can be run alone; each prints its
JSON objects and rewrites its own table.
"""

from experiments.studies import choosing, retrying, runs, scheduling, steering

PARTS = choosing, scheduling, retrying, steering


def main(argv: list[str]) -> None:
  for part in PARTS:
    part.main(argv)


if __name__ == '__main__':
  runs.start(main)
