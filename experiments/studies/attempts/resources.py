"""Attempts at using up the machine, and at not ending."""

from experiments.studies.attempts import base

_A = base.Attempt
_STOPPED = ('seconds', 'cpu')
_MANY = (*_STOPPED, 'memory')  # of what they run, if there is no cgroup

ATTEMPTS: base.Attempts = {
  'fork bomb': _A(
    'forks without end',
    """
while True:
  try:
    os.fork()
  except OSError:
    pass
""",
    _MANY,
  ),
  'fork bomb of short lives': _A(
    'forks and exits, so that no process is old',
    """
while os.fork():
  time.sleep(60)
while True:
  try:
    if os.fork():
      os._exit(0)
  except OSError:
    pass
""",
    _MANY,
  ),
  'processes above the limit': _A(
    'counts how many sleeping children it gets',
    """
made = 0
try:
  for _ in range(200):
    if os.fork() == 0:
      time.sleep(60)
    made += 1
except OSError:
  pass
print('ESCAPED' if made > 24 else 'held', made)
""",
    ('0', 'memory'),
  ),
  'threads': _A(
    'starts busy threads without end',
    """
while True:
  try:
    threading.Thread(target=spin).start()
  except RuntimeError:
    spin()
""",
    _STOPPED,
  ),
  'memory': _A('allocates 10 GB', 'x = bytearray(10 << 30)', ('memory', '1')),
  'memory, page by page': _A(
    'touches more and more, and catches what is raised',
    """
held = []
while True:
  try:
    held.append(b'x' * (1 << 20))
  except MemoryError:
    print('held: MemoryError')
    sys.exit(1)
""",
    ('memory', '1', 'cpu'),
  ),
  'memory of many': _A(
    'lets 12 children hold 32 MB each',
    """
for _ in range(12):
  if os.fork() == 0:
    x = b'x' * (32 << 20)
    time.sleep(60)
time.sleep(60)
""",
    ('memory',),
  ),
  'shared memory': _A(
    'maps 1 GB that its children share',
    """
import mmap
x = mmap.mmap(-1, 1 << 30)
for i in range(0, 1 << 30, 4096):
  x[i] = 1
print('ESCAPED')
""",
    _MANY,
  ),
  'memory of no process': _A(
    'asks for memfd and System V memory, queues and semaphores',
    """
ask('memfd', lambda: os.memfd_create('x'))
ask('shmget', lambda: c('shmget', 0, 1 << 30, 0o1600))
ask('msgget', lambda: c('msgget', 0, 0o1600))
ask('mq_open', lambda: c('mq_open', b'/q', os.O_CREAT | os.O_RDWR, 0o600, None))
""",
  ),
  'locked memory': _A(
    'locks its pages', "ask('mlockall', lambda: c('mlockall', 3))"
  ),
  'disk': _A(
    'fills every folder that it can write',
    """
total = 0
for folder in ('/task', '/tmp', '/dev/shm', '/', '/dev', '/var/tmp', '/run'):
  for i in range(100):
    try:
      with open(f'{folder}/x{i}', 'wb', buffering=0) as file:
        for _ in range(64):
          total += file.write(b'x' * (1 << 20))
    except OSError as error:
      print('held:', folder, error)
      break
print('ESCAPED' if total > 3 * (8 << 20) else 'held', total)
""",
    ('0',),
  ),
  'inodes': _A(
    'makes empty files without end',
    """
i = 0
while True:
  os.close(os.open(f'/tmp/{i}', os.O_CREAT))
  i += 1
""",
    ('inodes', 'memory', '1'),
  ),
  'inodes of links and folders': _A(
    'makes links and folders without end',
    """
i = 0
while True:
  os.symlink('x' * 4000, f's{i}')
  os.mkdir(f'd{i}')
  i += 1
""",
    ('inodes', 'memory', '1'),
  ),
  'sparse file': _A(
    'asks for a file of 1 TB, and hands out one of 7 MB without content',
    """
ask('1 TB', lambda: os.truncate(os.open('a', os.O_CREAT | os.O_RDWR), 1 << 40))
with open('sparse', 'wb') as file:
  file.truncate(7 << 20)
""",
    wanted=('sparse', 'a'),
    given=('a',),
  ),
  'deep folders': _A(
    'nests 1500 folders',
    """
for _ in range(1500):
  os.mkdir('d')
  os.chdir('d')
print('made')
""",
    ('0',),
    wanted=('/'.join(['d'] * 1501),),
  ),
  'strange names': _A(
    'names files by line ends, bytes that are no text, and 255 letters',
    """
for name in (b'\\n', b'\\xff\\xfe', b'a' * 255, b'-rf', b'$(id)', b'..a'):
  open(name, 'w').write('x')
ask('256', lambda: open('a' * 256, 'w'))
""",
    ('0',),
    wanted=('\n', 'a' * 255, '-rf', '$(id)', '..a', 'a' * 256),
    given=('\n', 'a' * 255, '-rf', '$(id)', '..a'),
  ),
  'flood of stdout': _A(
    'prints without end', "while True: os.write(1, b'x' * 65536)", ('output',)
  ),
  'flood of stderr': _A(
    'prints errors without end',
    "while True: os.write(2, b'x' * 65536)",
    ('output',),
  ),
  'flood by many': _A(
    'prints from ten processes, the first of which exits',
    """
for _ in range(10):
  if os.fork() == 0:
    while True:
      os.write(1, b'x' * 4096)
time.sleep(60)
""",
    ('output',),
  ),
  'flood behind the end': _A(
    'fills an enlarged pipe and exits',
    """
import fcntl
try:
  fcntl.fcntl(1, 1031, 1 << 20)
except OSError:
  pass
os.set_blocking(1, False)
try:
  while True:
    os.write(1, b'x' * 65536)
except BlockingIOError:
  pass
""",
    ('output', '0'),
  ),
  'sleep': _A('sleeps forever', 'time.sleep(1e6)', ('seconds',)),
  'busy loop': _A('computes forever', 'spin()', _STOPPED),
  'SIGSTOP': _A(
    'stops itself', 'os.kill(os.getpid(), signal.SIGSTOP)', ('seconds',)
  ),
  'signals ignored': _A(
    'ignores all signals that can be, and sleeps',
    """
for number in signal.valid_signals():
  try:
    signal.signal(number, signal.SIG_IGN)
  except OSError:
    pass
time.sleep(1e6)
""",
    ('seconds',),
  ),
  'stdout closed': _A(
    'closes all descriptors and stays',
    'os.closerange(0, 256)\ntime.sleep(1e6)',
    ('seconds',),
  ),
  'setsid': _A(
    'leaves a child in a session of its own',
    """
if os.fork() == 0:
  os.setsid()
  os.closerange(0, 256)
  time.sleep(60)
""",
    ('0',),
  ),
  'daemon': _A(
    'forks twice, leaves its session and its parent, and goes on writing',
    """
if os.fork() == 0:
  os.setsid()
  if os.fork():
    os._exit(0)
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  while True:
    open('/tmp/alive', 'w').write('x')
""",
    ('0',),
  ),
  'stdin not read': _A(
    'never reads the 4 MB that it is given',
    "print('done')",
    ('0',),
    stdin=b'x' * (4 << 20),
  ),
  'stdin closed': _A(
    'closes stdin and sleeps',
    'os.close(0)\ntime.sleep(60)',
    ('seconds',),
    stdin=b'x' * (4 << 20),
  ),
  'storm of writes': _A(
    'writes and syncs without end',
    """
with open('x', 'wb') as file:
  while True:
    file.seek(0)
    file.write(b'x' * (1 << 20))
    os.fsync(file.fileno())
""",
    _STOPPED,
  ),
  'descriptors': _A(
    'opens 10000 files',
    "ask('open', lambda: [os.open('/dev/null', 0) for _ in range(10000)])",
  ),
  'limits raised': _A(
    'raises its own limits',
    """
for name in ('CPU', 'FSIZE', 'NOFILE', 'NPROC', 'CORE', 'MEMLOCK', 'NICE'):
  what = getattr(resource, f'RLIMIT_{name}', 13)
  ask(name, lambda: resource.setrlimit(what, (1 << 30, 1 << 30)))
""",
  ),
  'priority': _A(
    'asks to go before others',
    """
ask('nice', lambda: os.nice(-20))
fifo = os.sched_param(10)
ask('fifo', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, fifo))
""",
  ),
  'core dump': _A('crashes', 'os.abort()', ('134',), wanted=('core',)),
  'terminals': _A(
    'opens terminals, and types into that of the harness',
    """
import fcntl
ask('ptmx', lambda: os.open('/dev/ptmx', os.O_RDWR))
ask('tty', lambda: os.open('/dev/tty', os.O_RDWR))
for fd in range(3):
  ask('TIOCSTI', lambda: fcntl.ioctl(fd, 0x5412, b'x'))
""",
  ),
}
