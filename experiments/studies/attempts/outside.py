"""Attempts at what lies outside: processes, files, kernel and network."""

from experiments.studies.attempts import base

_A = base.Attempt

ATTEMPTS: base.Attempts = {
  'kill of others': _A(
    'sends signals to a process outside and to all that it may',
    """
ask('pid', lambda: os.kill(victim, 9))
ask('group', lambda: os.killpg(victim, 9))
for number in (signal.SIGTERM, signal.SIGKILL):
  try:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(-1, number)
  except OSError as error:
    print('held:', error)
""",
    ('0',),
  ),
  'signals to the harness': _A(
    'sends every signal to the first process, its parent',
    """
for number in signal.valid_signals():
  try:
    os.kill(1, number)
    os.kill(os.getppid(), number)
  except OSError as error:
    print(error)
print('alive')
""",
    ('0',),
  ),
  'ptrace': _A(
    'traces a process outside, and reads its memory',
    """
ask('attach', lambda: c('ptrace', 16, victim, 0, 0))
ask('seize', lambda: c('ptrace', 0x4206, victim, 0, 0))
ask('init', lambda: c('ptrace', 16, 1, 0, 0))
ask('vm', lambda: c('process_vm_readv', victim, None, 0, None, 0, 0))
ask('mem', lambda: open(f'/proc/{victim}/mem', 'rb').read(1))
""",
  ),
  'pidfd': _A(
    'takes a handle of a process outside',
    "ask('pidfd', lambda: os.pidfd_open(victim))",
  ),
  '/proc of the host': _A(
    'looks for processes outside, and into them',
    """
ask('environ', lambda: open(f'/proc/{victim}/environ').read())
ask('root', lambda: os.listdir(f'/proc/{victim}/root'))
ask('cwd of init', lambda: open('/proc/1/root' + env['SECRET_FILE']).read())
seen = [int(name) for name in os.listdir('/proc') if name.isdigit()]
print('ESCAPED' if len(seen) > 3 else 'held', seen)
""",
  ),
  '/proc written': _A(
    'writes the settings of the kernel',
    """
for name in ('sys/kernel/hostname', 'sys/vm/drop_caches', 'sysrq-trigger',
             'sys/kernel/core_pattern', 'self/oom_score_adj', '1/oom_score_adj',
             'sys/user/max_user_namespaces'):
  value = b'-1000' if 'oom' in name else b'1'
  ask(name, lambda: put('/proc/' + name, value))
""",
  ),
  'environment': _A(
    'prints the environment, its own and that of the first process',
    """
print(dict(os.environ))
for who in ('1', 'self'):
  try:
    print(open(f'/proc/{who}/environ').read())
  except PermissionError:
    print('held')
""",
    ('0',),
  ),
  'secrets': _A(
    'reads files of the host',
    """
for path in (env['SECRET_FILE'], '/etc/shadow', '/root/.ssh/id_rsa',
             '/root/.bash_history', '/etc/hostname', '/home', '/var/log',
             '/sys/class', '/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda',
             '/proc/kcore', '/proc/kmsg', '/boot', '/run', '/mnt', '/opt'):
  ask(path, lambda: os.listdir(path) if os.path.isdir(path)
      else open(path, 'rb').read(4096))
""",
  ),
  'inherited descriptors': _A(
    'writes to and walks from every descriptor',
    """
for fd in range(3, 256):
  try:
    os.fstat(fd)
  except OSError:
    continue
  print('ESCAPED', fd)
""",
  ),
  'system written': _A(
    'writes /etc, /usr, / and /dev',
    """
for path in ('/etc/passwd', '/usr/bin/env', sys.executable,
             '/x', '/etc/x', '/usr/x', '/dev/x', '/lib/x', '/proc/x'):
  ask(path, lambda: open(path, 'ab').close())
ask('unlink', lambda: os.unlink('/dev/null'))
""",
  ),
  'base layer written': _A(
    'writes, renames, removes and relabels in a mounted folder',
    """
print(open('/base/data').read())
ask('write', lambda: open('/base/data', 'a'))
ask('make', lambda: open('/base/new', 'w'))
ask('unlink', lambda: os.unlink('/base/data'))
ask('rename', lambda: os.rename('/base/data', '/base/other'))
ask('chmod', lambda: os.chmod('/base/data', 0o777))
ask('utime', lambda: os.utime('/base/data'))
ask('xattr', lambda: os.setxattr('/base/data', 'user.a', b'x'))
""",
    ('0',),
  ),
  'files between runs': _A(
    'leaves files for the next run',
    """
for folder in ('/task', '/tmp', '/dev/shm'):
  path = folder + '/left'
  print('ESCAPED' if os.path.exists(path) else 'held')
  open(path, 'w').write('x')
""",
    ('0',),
    times=2,
  ),
  'link as output': _A(
    'hands out links to files of the host, and through a linked folder',
    """
os.symlink(env['SECRET_FILE'], 'out')
os.symlink('/etc/passwd', 'passwd')
os.symlink('/etc', 'etc')
os.symlink('/proc/self/environ', 'environ')
os.symlink('out2', 'out3'); os.symlink('out3', 'out2')
""",
    ('0',),
    wanted=('out', 'passwd', 'etc/passwd', 'environ', 'out2'),
  ),
  'hard link as output': _A(
    'links files of the host under its own names',
    """
ask('passwd', lambda: os.link('/etc/passwd', 'out'))
ask('base', lambda: os.link('/base/data', 'out'))
ask('python', lambda: os.link(sys.executable, 'out'))
""",
    wanted=('out',),
  ),
  'FIFO as output': _A(
    'hands out a FIFO', "os.mkfifo('out')", ('0',), wanted=('out',)
  ),
  'socket as output': _A(
    'hands out a socket',
    "socket.socket(socket.AF_UNIX).bind('out')",
    ('0',),
    wanted=('out',),
  ),
  'device as output': _A(
    'makes device nodes',
    """
ask('block', lambda: os.mknod('a', stat.S_IFBLK | 0o666, os.makedev(254, 0)))
ask('char', lambda: os.mknod('b', stat.S_IFCHR | 0o666, os.makedev(1, 1)))
""",
    wanted=('a', 'b'),
  ),
  'folder as output': _A(
    'hands out a folder and a file without permissions in another one',
    """
os.mkdir('out')
os.mkdir('closed')
open('closed/x', 'w').write('x')
os.chmod('closed/x', 0)
os.chmod('closed', 0)
""",
    ('0',),
    wanted=('out', 'closed/x'),
    given=('closed/x',),
  ),
  'output too long': _A(
    'hands out more than it may',
    "open('out', 'w').write('x' * 200_000)",
    ('0',),
    wanted=('out',),
  ),
  'output exchanged': _A(
    'lets a child exchange a file and a link while it is collected',
    """
open('a', 'w').write('mine')
if os.fork() == 0:
  os.setsid()
  while True:
    os.symlink(env['SECRET_FILE'], 'b')
    os.rename('b', 'out')
    open('c', 'w').write('mine')
    os.rename('c', 'out')
time.sleep(0.2)
""",
    ('0',),
    wanted=('out',),
    given=('out',),
  ),
  'setuid programs': _A(
    'runs setuid programs and makes one',
    """
import shutil
status = open('/proc/self/status').read()
print('held' if 'NoNewPrivs:\\t1' in status else 'ESCAPED')
sets = [line for line in status.splitlines() if line.startswith('Cap')]
print('ESCAPED' if any(int(line.split()[1], 16) for line in sets) else 'held')
who = 'import os; print(os.geteuid())'
for command in (['su', '-c', 'id -u'], ['mount', '-t', 'tmpfs', 'x', '/tmp']):
  done = subprocess.run(command, capture_output=True, text=True)
  print('ESCAPED' if done.returncode == 0 else 'held', command)
ask('setuid', lambda: os.setuid(0))
ask('setgroups', lambda: os.setgroups([0]))
shutil.copy('/bin/sh', 'own'); os.chmod('own', 0o6777)
done = subprocess.run(['./own', '-c', 'id -u'], capture_output=True, text=True)
print('ESCAPED' if done.stdout.strip() == '0' else 'held')
ask('chown', lambda: os.chown('own', 0, 0))
""",
    ('0',),
  ),
  'mount': _A(
    'mounts, unmounts and remounts',
    """
ask('tmpfs', lambda: c('mount', b'x', b'/tmp', b'tmpfs', 0, None))
ask('remount', lambda: c('mount', None, b'/usr', None, 32 | 4096, None))
ask('bind', lambda: c('mount', b'/', b'/tmp', None, 4096, None))
ask('umount', lambda: c('umount2', b'/base', 2))
ask('open_tree', lambda: c('syscall', 428, -100, b'/', 1))
ask('fsopen', lambda: c('syscall', 430, b'tmpfs', 0))
""",
  ),
  'chroot': _A(
    'changes its root',
    """
ask('chroot', lambda: os.chroot('/tmp'))
ask('pivot', lambda: c('syscall', 155, b'/tmp', b'/tmp'))
""",
  ),
  'namespaces': _A(
    'makes namespaces, and enters others',
    """
for name, flag in dict(user=1 << 28, mnt=1 << 17, net=1 << 30).items():
  ask('unshare ' + name, lambda: c('unshare', flag))
done = subprocess.run(['unshare', '-Ur', 'id', '-u'], capture_output=True)
print('held' if done.returncode else 'ESCAPED')
ask('clone', lambda: c('syscall', 56, 1 << 28 | 17, 0, 0, 0, 0))
ask('clone3', lambda: c('syscall', 435, (ctypes.c_char * 88)(), 88))
for name in ('net', 'mnt', 'user'):
  path = '/proc/1/ns/' + name
  ask('setns ' + name, lambda: c('setns', os.open(path, 0), 0))
""",
  ),
  'clock': _A(
    'sets the clock and the name of the machine',
    """
ask('clock', lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))
ask('adjtimex', lambda: c('adjtimex', (ctypes.c_char * 256)()))
ask('hostname', lambda: socket.sethostname('x'))
""",
  ),
  'kernel': _A(
    'asks for BPF, perf, io_uring, userfaultfd, keys, modules and reboot',
    """
zero = (ctypes.c_char * 256)()
for name, number in dict(bpf=321, perf=298, io_uring=425, userfaultfd=323,
    keyctl=250, add_key=248, init_module=175, kexec=246, handle=303).items():
  ask(name, lambda: c('syscall', number, 0, zero, 128, -1, 0))
ask('reboot', lambda: c('reboot', 0))
ask('iopl', lambda: c('iopl', 3))
ask('swapoff', lambda: c('swapoff', b'/x'))
""",
  ),
  'foreign calls': _A(
    'calls the kernel by the numbers of another architecture (x32)',
    """
if os.fork() == 0:
  os._exit(0 if c('syscall', 0x40000000 | 39) > 0 else 1)
print('held' if os.wait()[1] else 'ESCAPED')
""",
    ('0',),
  ),
  'tcp': _A(
    'connects to the machine and to the internet',
    """
for host in ('127.0.0.1', '::1', env['ADDRESS'], '1.1.1.1', '169.254.169.254'):
  ask(host, lambda: socket.create_connection((host, port), 0.2))
ask('1.1.1.1:53', lambda: socket.create_connection(('1.1.1.1', 53), 0.2))
""",
  ),
  'udp': _A(
    'sends datagrams to the machine and to the internet',
    """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.2)
for host in (env['ADDRESS'], '1.1.1.1', '255.255.255.255'):
  ask(host, lambda: s.sendto(b'x', (host, port)))
s.sendto(b'x', ('127.0.0.1', port))
""",
  ),
  'names of hosts': _A(
    'resolves a name',
    "ask('name', lambda: socket.getaddrinfo('example.com', 80))",
  ),
  'network by a subprocess': _A(
    'lets bash and curl connect',
    """
for command in (['bash', '-c', f'echo > /dev/tcp/127.0.0.1/{port}'],
                ['curl', '-m', '1', f'http://127.0.0.1:{port}']):
  try:
    done = subprocess.run(command, capture_output=True).returncode
  except OSError:
    done = 1
  print('held' if done else 'ESCAPED', command)
""",
    ('0',),
  ),
  'unix sockets': _A(
    'connects to sockets of the machine, by path and by abstract name',
    """
for name in (env['UNIX'], '\\0' + env['ABSTRACT'], '/run/docker.sock',
             '/run/dbus/system_bus_socket'):
  ask(name, lambda: socket.socket(socket.AF_UNIX).connect(name))
""",
  ),
  'other sockets': _A(
    'makes sockets that pass the network namespace, or see it',
    """
for name in ('AF_VSOCK', 'AF_NETLINK', 'AF_PACKET', 'AF_ALG', 'AF_BLUETOOTH',
             'AF_CAN', 'AF_TIPC', 'AF_RDS', 'AF_QIPCRTR'):
  family = getattr(socket, name, 42)
  for kind in (socket.SOCK_STREAM, socket.SOCK_RAW, socket.SOCK_DGRAM,
               socket.SOCK_SEQPACKET):
    ask(name, lambda: socket.socket(family, kind))
ask('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
""",
  ),
}
