"""The text of a compiled program, read as XLA prints it."""

import pytest

from arl.train.aot import hlo

TEXT = """HloModule jit_f, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[]{:T(128)} parameter(0)
  %b = f32[]{:T(128)} parameter(1)
  ROOT %sum = f32[]{:T(128)} add(%a, %b), metadata={op_name="sum (twice)"}
}

ENTRY %main.3_spmd (p: bf16[8,4], q: f32[2]) -> (bf16[8,4], f32[2]) {
  %p = bf16[8,4]{1,0:T(8,128)(2,1)} parameter(0)
  %q = f32[2]{0:T(128)S(1)} parameter(1)
  %start = (f32[2]{0}, f32[2]{0}, /*index=2*/u32[]{:S(2)}) all-reduce-start(%q), replica_groups={{0,1},{2,3}}, to_apply=%add
  %done = f32[2]{0:T(128)S(1)} all-reduce-done(%start)
  ROOT %out = (bf16[8,4]{1,0}, f32[2]{0}) tuple(%p, %done)
}
"""  # noqa: E501


def test_computations_and_instructions_are_found():
  program = hlo.parse(TEXT)
  assert program.entry == 'main.3_spmd'
  assert list(program.computations) == ['add', 'main.3_spmd']
  entry = program.computations['main.3_spmd']
  assert entry.result.name == 'out' and entry.result.operands == ('p', 'done')
  assert entry.result.made[0] == hlo.Array('bf16', (8, 4))
  assert entry.instructions['p'].made[0].bytes == 64
  start = entry.instructions['start']
  assert start.code == 'all-reduce-start' and start.operands == ('q',)
  assert [a.dtype for a in start.made] == ['f32', 'f32', 'u32']
  assert hlo.called(start, 'to_apply') == ['add']
  assert program.computations['add'].result.code == 'add'


def test_fast_memory_is_told_apart():
  entry = hlo.parse(TEXT).computations['main.3_spmd']
  near = {name: one.made[0].near for name, one in entry.instructions.items()}
  assert near == {
    'p': False, 'q': True, 'start': False, 'done': True, 'out': False,
  }  # fmt: skip


@pytest.mark.parametrize(
  'text, size',
  [
    ('replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}', 4),
    ('replica_groups=[2,4]<=[8]', 4),
    ('replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true', 2),
    ("replica_groups=mesh['axis_0'=1,'axis_1'=8] {'axis_1'}", 8),
    ("replica_groups=mesh['a'=4,'b'=8] {'a','b'}", 32),
    ("replica_groups=mesh['a'=16] {'a':(1)4}", 4),
    ("replica_groups=mesh['a'=2,'b'=8], device_ids=([8,2]T(1,0)) {'b'}", 8),
    ('replica_groups={}', 16),
    ('channel_id=1', 16),
  ],
)
def test_groups_of_devices_in_every_form(text, size):
  assert hlo.group_size(text, 16) == size


def test_a_branch_names_its_computations():
  text = 'branch_computations={%zero, %one.2}, metadata={}'
  both = 'true_computation=%yes, false_computation=%no.1'
  one = hlo.Instruction('c', 'conditional', (), (), '', text, False)
  assert hlo.called(one, 'branch_computations') == ['zero', 'one.2']
  other = one._replace(attributes=both)
  keys = 'true_computation|false_computation'
  assert hlo.called(other, keys) == ['yes', 'no.1']


def test_a_text_without_an_entry_is_refused():
  with pytest.raises(ValueError, match='no ENTRY computation'):
    hlo.parse('HloModule nothing')
