"""The shape of a decoder, and the published ones by name."""

from typing import NamedTuple

FAMILIES = ('llama', 'qwen2', 'qwen3', 'qwen3_moe')


class Rope(NamedTuple):
  """Rotary positions, with the scalings that stretch them to long contexts.

  The fields carry the names they have in a Hugging Face config; which of them a
  type reads is in `arl.models.rope.FIELDS`.

  Attributes:
    theta: the base of the wavelengths.
    type: 'default', 'linear', 'llama3' or 'yarn'.
    factor: how many times longer the context becomes.
    original_max_position_embeddings: tokens of the context before that.
    low_freq_factor: llama3: wavelengths above original / low are stretched.
    high_freq_factor: llama3: those below original / high stay as they are.
    beta_fast: yarn: a dimension turning more often than this stays.
    beta_slow: yarn: one turning less often is stretched.
    attention_factor: yarn: multiplies the tables; None derives it from factor.
    mscale: yarn: with the next, another way to derive the attention factor.
    mscale_all_dim: yarn: see mscale.
    truncate: yarn: whether the bounds of the ramp are whole dimensions.
  """

  theta: float
  type: str = 'default'
  factor: float = 1.0
  original_max_position_embeddings: int = 0
  low_freq_factor: float = 1.0
  high_freq_factor: float = 4.0
  beta_fast: float = 32.0
  beta_slow: float = 1.0
  attention_factor: float | None = None
  mscale: float | None = None
  mscale_all_dim: float | None = None
  truncate: bool = True


class Mixture(NamedTuple):
  """Experts in the place of MLPs.

  Attributes:
    experts: of a layer.
    chosen: how many of them a token goes through.
    width: of the gated hidden layer of each.
    normalized: whether the weights of a token's experts add up to 1.
    dense: the layers that keep an ordinary MLP, in order.
  """

  experts: int
  chosen: int
  width: int
  normalized: bool = True
  dense: tuple[int, ...] = ()


class Sizes(NamedTuple):
  """Everything that decides a decoder's parameters and its forward pass.

  Attributes:
    vocab: rows of the embedding.
    width: of the residual stream.
    layers: how many.
    heads: query heads of a layer.
    kv_heads: key and value heads of a layer; divides `heads`.
    head_dim: width of a head; even.
    mlp_width: of the gated hidden layer.
    rope: rotary positions.
    norm_eps: added to the mean square in every norm.
    tied: whether the head is the embedding.
    qkv_bias: whether queries, keys and values have a bias.
    out_bias: whether the attention's output has a bias.
    qk_norm: whether queries and keys are normalized by head.
    context: tokens of the longest sequence it was made for.
    family: the published architecture it is saved as, one of FAMILIES.
    mixture: the experts, or None for an ordinary MLP in each layer.
  """

  vocab: int
  width: int
  layers: int
  heads: int
  kv_heads: int
  head_dim: int
  mlp_width: int
  rope: Rope
  norm_eps: float
  tied: bool
  qkv_bias: bool = False
  out_bias: bool = False
  qk_norm: bool = False
  context: int = 2048
  family: str = 'llama'
  mixture: Mixture | None = None


def check_mixture(mixture: Mixture, layers: int) -> None:
  """Refuses experts that no decoder of so many layers can have.

  Raises:
    ValueError: too many are chosen, or the layers without any are wrong.
  """
  if not 1 <= mixture.chosen <= mixture.experts:
    raise ValueError(
      f'a token chooses {mixture.chosen} of {mixture.experts} experts; set'
      ' Mixture.chosen to 1 up to Mixture.experts.'
    )
  dense = mixture.dense
  if not set(dense) < set(range(layers)) or list(dense) != sorted(set(dense)):
    raise ValueError(
      f'layers {dense} of {layers} are without experts; name some of them, in'
      ' order, and not all: without any set Sizes.mixture to None.'
    )


def tiny(vocab: int = 97) -> Sizes:
  """The smallest that still has groups of heads; for tests."""
  return Sizes(
    vocab=vocab,
    width=32,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    mlp_width=48,
    rope=Rope(theta=10_000.0),
    norm_eps=1e-6,
    tied=True,
    context=128,
  )


def tiny_moe(vocab: int = 97) -> Sizes:
  """The smallest with experts: two of six a token; for tests."""
  return tiny(vocab)._replace(
    head_dim=16,
    tied=False,
    qk_norm=True,
    family='qwen3_moe',
    mixture=Mixture(experts=6, chosen=2, width=24),
  )


def quick(vocab: int) -> Sizes:
  """Learns a toy task on two CPU cores in minutes."""
  return Sizes(
    vocab=vocab,
    width=128,
    layers=2,
    heads=8,
    kv_heads=4,
    head_dim=16,
    mlp_width=256,
    rope=Rope(theta=300.0),
    norm_eps=1e-6,
    tied=True,
    context=256,
  )


def smollm2_135m() -> Sizes:
  """HuggingFaceTB/SmolLM2-135M and its instruct variant."""
  return Sizes(
    vocab=49_152,
    width=576,
    layers=30,
    heads=9,
    kv_heads=3,
    head_dim=64,
    mlp_width=1536,
    rope=Rope(theta=100_000.0),
    norm_eps=1e-5,
    tied=True,
    context=8192,
  )


def llama3_2_1b() -> Sizes:
  """meta-llama/Llama-3.2-1B and its instruct variant."""
  return Sizes(
    vocab=128_256,
    width=2048,
    layers=16,
    heads=32,
    kv_heads=8,
    head_dim=64,
    mlp_width=8192,
    rope=Rope(
      theta=500_000.0,
      type='llama3',
      factor=32.0,
      original_max_position_embeddings=8192,
      low_freq_factor=1.0,
      high_freq_factor=4.0,
    ),
    norm_eps=1e-5,
    tied=True,
    context=131_072,
  )


def qwen3_0_6b() -> Sizes:
  """Qwen/Qwen3-0.6B."""
  return Sizes(
    vocab=151_936,
    width=1024,
    layers=28,
    heads=16,
    kv_heads=8,
    head_dim=128,
    mlp_width=3072,
    rope=Rope(theta=1_000_000.0),
    norm_eps=1e-6,
    tied=True,
    qk_norm=True,
    context=40_960,
    family='qwen3',
  )


def qwen3_8b() -> Sizes:
  """Qwen/Qwen3-8B."""
  return qwen3_0_6b()._replace(
    width=4096,
    layers=36,
    heads=32,
    mlp_width=12_288,
    tied=False,
  )


def qwen3_30b_a3b() -> Sizes:
  """Qwen/Qwen3-30B-A3B."""
  return qwen3_0_6b()._replace(
    width=2048,
    layers=48,
    heads=32,
    kv_heads=4,
    mlp_width=6144,
    tied=False,
    family='qwen3_moe',
    mixture=Mixture(experts=128, chosen=8, width=768),
  )
