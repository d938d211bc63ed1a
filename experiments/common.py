"""What experiment configs share: parsing their argument, and the blocks."""

import difflib
from collections.abc import Collection

import ml_collections

FRESH = 'fresh'  # a model that is no folder, but new and small


def parse(arg: str | None, **defaults: str | bool) -> dict[str, str | bool]:
  """Reads a config's argument: 'quick,model=DIR' -> {quick: True, model: DIR}.

  With `quick`, a model that is not given, and that a run would have to make
  first, is FRESH: a smoke run begins with nothing.

  Args:
    arg: comma-separated words and name=value pairs; None or '' for none.
    **defaults: every name that is known and its value when not given; a word
      alone sets a name whose default is False.

  Raises:
    ValueError: an unknown name, or a value where a word was wanted.
  """
  values, chosen = dict(defaults), set()
  for part in filter(None, (arg or '').split(',')):
    name, given, value = part.partition('=')
    if name not in defaults:
      raise ValueError(
        f'config argument {part!r}: known are {", ".join(sorted(defaults))}.'
      )
    if bool(given) != isinstance(defaults[name], str):
      kind = 'name=value' if isinstance(defaults[name], str) else 'a word alone'
      raise ValueError(f'config argument {part!r}: {name} is {kind}.')
    values[name] = value if given else True
    chosen.add(name)
  of_a_run = str(values.get('model', '')).endswith('/final')
  if 'quick' in chosen and 'model' not in chosen and of_a_run:
    values['model'] = FRESH
  return values


def one_of(name: str, value: str, known: Collection[str]) -> str:
  """The value of an argument, which has to be one of those that are known.

  Raises:
    ValueError: it is not.
  """
  if value in known:
    return value
  near = difflib.get_close_matches(value, known, n=1)
  hint = (
    f'did you mean {near[0]}?' if near else f'known are {", ".join(known)}.'
  )
  raise ValueError(f'config argument {name}={value}: {hint}')


def start_from(config: ml_collections.ConfigDict, model: str) -> None:
  """Writes where a run starts: from the folder of a model, or from FRESH.

  A fresh one is right about nothing, and there is nothing to learn among
  equals: so its rollouts earn a little for being short.
  """
  if model != FRESH:
    config.model.path = model
    return
  config.model.update(path='', size='quick')
  config.reward.terms = {'short': {'name': 'shaping.shortest', 'weight': 0.5}}


def base() -> ml_collections.ConfigDict:
  """Every key of a config, with the values that most experiments share."""
  return ml_collections.ConfigDict(
    {
      'seed': 0,
      'steps': 40,
      'model': {
        'path': '',
        'size': '',
        'dtype': 'float32',
        'remat': 'none',
        'logit_chunk': 0,
        'teacher': '',
        'average': 0.0,
        'critic': '',
        'value_bins': 0,
        'lora': {
          'rank': 0,  # 0 for none: all is learnt
          'alpha': 32.0,
          'targets': r'.*/(query|key|value|out|gate|up|down)',
        },
      },
      'knobs': {},
      'method': {'name': 'grpo.dapo', 'low': 0.2, 'high': 0.28},
      'env': {'name': 'tools.make'},
      'reward': {'cap': 0.5, 'terms': {}},
      'engine': {
        'make': '',
        'slots': 256,
        'dtype': '',
        'cache': '',
        'urls': '',
        'sync': 'sync.disk',
        'folder': '',
        'pause': 'retract',
        'tolerance': 1e-4,
      },
      'rollout': {
        'strategy': 'strategies.multi_turn',
        'max_turns': 5,
        'turn_tokens': 24,
        'response_tokens': 128,
        'budget': 0,  # 0 for no end within a step
        'seconds': 0.0,  # 0 for no limit
        'context': 128,
        'temperature': 1.0,
        'top_p': 1.0,
        'top_k': 0,
        'stop_text': '',
        'observation_role': 'tool',
        'reconsidering': '',
        'max_failed': 0.5,
        'lag': 0,
        'ahead': 0,
        'window': 0,  # 0 for no bound
      },
      'prompts': {
        'size': 8192,
        'batch': 32,
        'samples': 8,
        'choose': {'name': 'curricula.shuffled'},
        'rounds': 1,
        'max_age': 0,
        'in_flight': 0,
        'select': 'select.varied',
        'scale': 0.0,
        'least_spread': 0.0,
        'replay': {'name': 'replay.none'},
      },
      'updates': {
        'epochs': 1,
        'per_batch': 2,
        'microbatch': 16,
        'frozen': '',
        'routing': 'own',
        'prefixes': 'own',
        'qk_clip': 0.0,
        'max_nonfinite': 5,
      },
      'optimizer': {
        'name': 'optimizers.adamw',
        'lr': 5e-4,
        'warmup': 10,
        'decay': 0,
        'b1': 0.9,
        'b2': 0.99,
        'weight_decay': 0.0,
        'max_norm': 0.5,
      },
      'mesh': {
        'data': 1,
        'fsdp': 1,
        'expert': 1,
        'context': 1,
        'tensor': 1,
        'rules': 'partition.decoder',
      },
      'eval': {
        'strategy': 'strategies.multi_turn',
        'every': 10,
        'crossed': 0,
        'tasks': 256,
        'final_tasks': 512,
      },
      'checkpoint': {'every': 10, 'keep': 2},
    }
  )
