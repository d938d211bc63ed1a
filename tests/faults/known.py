"""Faults that were seen in other code, and what makes each kind impossible.

The numbers are those of the collection that the cases come from; the tests of a
case begin with its number: test_21_... `python -m launch.faults` writes the
table.
"""

from typing import NamedTuple


class Case(NamedTuple):
  """A fault.

  Attributes:
    name: what went wrong.
    kind: of mistake it is.
    where: what makes that kind impossible here, with the module.
  """

  name: str
  kind: str
  where: str


CASES = {
  1: Case(
    'a loss mask that is shifted twice, or never',
    'off by one',
    'a column speaks of its own token everywhere; `arl.models.heads` alone'
    ' reads the state before it',
  ),
  2: Case(
    'observations that are trained on, or counted',
    'the wrong mask',
    'one mask from the rollout on; `arl.methods.compose` shows kernels nothing'
    ' off it',
  ),
  3: Case(
    'an end that is lost as padding',
    'masks made from ids',
    '`arl.rollout.strategies` writes the mask as it appends; no id means'
    ' padding',
  ),
  4: Case(
    'padding on the left that moves positions',
    'padding side',
    '`arl.rollout.pack` writes positions and segments beside the tokens',
  ),
  5: Case(
    'log-probs of engine and trainer one token apart',
    'off by one',
    'one convention for every column, and `mismatch/max` before each update'
    ' (`arl.train.score`)',
  ),
  7: Case(
    'a stop token that does not come back',
    'a shortened stream',
    '`arl.rollout.engine.check_sample` refuses lengths that differ, and a stop'
    ' without its token',
  ),
  8: Case(
    'samples of a row that see each other',
    'contamination',
    'attention within a segment alone (`arl.models.attention`); a row begins'
    ' with a prompt (`arl.rollout.pack`)',
  ),
  9: Case(
    'a template that rewrites history',
    'drift by rendering',
    'rows are append-only (`arl.rollout.chat`); a turn that is printed anew'
    ' begins a row (`arl.rollout.templates`)',
  ),
  11: Case(
    'sampled ids that are decoded and encoded again',
    'token identity',
    'engines are spoken to in ids (`arl.rollout.engine`); an episode keeps'
    ' those sampled',
  ),
  12: Case(
    'a sequence that begins twice, or not at all',
    'template against tokenizer',
    'the template alone prints markers; `arl.rollout.chat.encode` adds none',
  ),
  13: Case(
    'arguments of a call that are encoded twice',
    'drift by rendering',
    'messages are brought into one form (`arl.rollout.messages`); sampled calls'
    ' are not printed',
  ),
  14: Case(
    'groups by place, or by another key',
    'identity of groups',
    'a group is the ids of its task, a `Level` that every layout carries'
    ' (`arl.levels`)',
  ),
  17: Case(
    'an advantage out of a rounding residue',
    'a numerical guard',
    'rewards have to differ by more than their rounding'
    ' (`arl.kernels.advantages`)',
  ),
  18: Case(
    'returns that break at observations',
    'recursion over masked places',
    'one scan over the tokens of the policy (`arl.kernels.scans`)',
  ),
  20: Case(
    'rows that fill up, and crashes, that count',
    'the last part of a batch',
    'filler has no token on the mask; an episode without a grade is refused by'
    ' `arl.rollout.pack`',
  ),
  21: Case(
    'a mean of means',
    'denominators',
    'weights are made once an update, and losses are sums'
    ' (`arl.kernels.aggregations`)',
  ),
  23: Case(
    'rows left out of one mask of two',
    'two masks for one quantity',
    '`arl.methods.compose.only` narrows the mask of every aggregate',
  ),
  24: Case(
    'a ratio of sequences that weighs by length',
    'aggregation',
    'ratio, surrogate and weights are separate columns'
    ' (`arl.methods.sequence`)',
  ),
  25: Case(
    'clipping and schedules by the microbatch',
    'wiring of the optimizer',
    'the optimizer sees the gradient of an update, once, and only a finite one'
    ' (`arl.train.step`)',
  ),
  26: Case(
    'a temperature on one side only',
    'another distribution',
    'each scorer is made with the temperature of the rollouts'
    ' (`arl.train.forward`)',
  ),
  28: Case(
    'log-probs over the tokens that were kept',
    'another support',
    'a run with a truncated sampler is refused (`arl.train.checks`)',
  ),
  29: Case(
    'sums and log-probs in low precision',
    'numerics',
    'logits and columns are float32 whatever the model computes in'
    ' (`arl.models.functional`)',
  ),
  30: Case(
    'infinity times zero',
    'hygiene of gradients',
    'columns are 0 off the mask before any kernel (`arl.methods.compose`)',
  ),
  31: Case(
    'an estimator taken for its gradient',
    'estimators',
    'what each pulls to is in `arl.kernels.divergences`, and enumerated',
  ),
  32: Case(
    'a KL that counts twice, never, or helps',
    'wiring and sign',
    'it is a term or a step of the rewards, never a switch'
    ' (`arl.methods.terms`, `arl.methods.ppo`)',
  ),
  35: Case(
    'a cache of old weights',
    'stale state',
    '`set_params` forgets every cache (`arl.rollout.scheduler`); servers are'
    ' probed for it (`arl.train.sync`)',
  ),
  36: Case(
    'adapters that never reach the sampler',
    'handing over weights',
    'samplers are given the sum alone (`arl.train.export`); versions and'
    ' log-probs prove it (`arl.train.sync`)',
  ),
  38: Case(
    'a head that is tied, or not, by mistake',
    'loading weights',
    'every tensor is used once and none made up (`arl.models.hf`)',
  ),
  39: Case(
    'rows of the table without a token',
    'size of the vocabulary',
    'a run knows the ids of its tokenizer alone'
    ' (`arl.models.tokenizers.known`)',
  ),
  40: Case(
    'rotary settings under another key',
    'reading a config',
    'both spellings are read, and what is not read is refused'
    ' (`arl.models.hf_rope`)',
  ),
  41: Case(
    'a budget that begins anew each turn',
    'accounting of lengths',
    'one function says what is left (`arl.rollout.strategies.request`)',
  ),
  42: Case(
    'an abort that loses tokens, or is graded',
    'partial rollouts',
    'an abort is no end: `arl.rollout.resume` joins the parts, and checks each',
  ),
  44: Case(
    'the same seed, the same answers',
    'randomness',
    'keys are folded from step, task, sample and turn'
    ' (`arl.rollout.sampler.fold`); copies beyond chance are told'
    ' (`arl.rollout.alike`)',
  ),
  46: Case(
    'what is cut off scored as all, or as none',
    'truncation',
    'the status of each episode says how it ended (`arl.episode`)',
  ),
  47: Case(
    'batches that never fill',
    'liveness',
    'rounds are counted, and what is left over is carried (`arl.train.gather`)',
  ),
  48: Case(
    'a verifier that fails, taken for a wrong answer',
    'silent failure',
    'a verdict has a status beside its score (`arl.rewards.verdict`)',
  ),
  49: Case(
    'one answer that blocks the rewards',
    'hanging',
    'workers are processes that are ended (`arl.rewards.pool`); sizes are'
    ' looked at before (`arl.rewards.sizes`)',
  ),
  50: Case(
    'formulas that are equal, or not, by mistake',
    'accuracy of a verifier',
    'one answer is taken, read whole and compared by size'
    ' (`arl.rewards.maths`)',
  ),
  51: Case(
    'rewards for form',
    'reward hacking',
    'answers are compared whole (`arl.rewards.search`), and a form is of all'
    ' of a text (`arl.rewards.forms`)',
  ),
  54: Case(
    'what programs leave, reach or see',
    'isolation',
    'namespaces, and a refusal where there are none (`arl.sandbox`)',
  ),
  55: Case(
    'calls that are cut, merged or made up',
    'parsing',
    'the JSON decoder says where a call ends (`arl.envs.calls`)',
  ),
  56: Case(
    'a run that goes on with other data, or none',
    'state of the data',
    'tasks are a function of the step (`arl.prompts.source`); other settings'
    ' are refused (`arl.train.settings`)',
  ),
  58: Case(
    'a save that is overtaken, lost or unreadable',
    'durability',
    'a save holds its own copy; what is damaged gives way to the step before'
    ' (`arl.train.checkpoint`)',
  ),
  59: Case(
    'a restore that fills in or casts',
    'partial restoring',
    'leaves are compared with a manifest and a digest each'
    ' (`arl.train.checkpoint`)',
  ),
  60: Case(
    'pass@k of other samples than were drawn',
    'estimators',
    'exact binomials a problem, of graded samples (`arl.evaluate.estimators`)',
  ),
}
