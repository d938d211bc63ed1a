"""A supervised warm start: python -m launch.sft --config=FILE --workdir=DIR.

The same loop as launch.train, and the same flags. Its config's strategy lets a
demonstrator act and its method is imitation: see experiments/quickstart_sft.py.
"""

from launch import train

if __name__ == '__main__':
  train.run()
