"""The scripts for clusters, against commands that only note their arguments."""

import http.server
import os
import pathlib
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def noted(tmp_path):
  """(folder of fake commands, file with a line a call)."""
  folder, log = tmp_path / 'bin', tmp_path / 'calls'
  folder.mkdir()

  def fake(name, body=':'):
    path = folder / name
    path.write_text(
      f'#!/bin/bash\n(printf "%q " {name} "$@"; echo) >> "{log}"\n{body}\n'
    )
    path.chmod(0o755)

  fake('srun', '[[ $* == *sglang.sh* ]] && exec sleep 60 || true')
  fake('gcloud')
  fake('scontrol', 'printf "%s\\n" first 127.0.0.1')
  return folder, log


def run(noted, *command, **env):
  return subprocess.run(
    command,
    env={**os.environ, 'PATH': f'{noted[0]}:{os.environ["PATH"]}', **env},
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=60,
  )


@pytest.fixture
def ready():
  """A port on loopback where a server says that it is ready, and the next."""

  class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
      self.send_response(200 if self.path == '/model_info' else 404)
      self.end_headers()

    def log_message(self, *_):
      pass

  made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Ready)
  threading.Thread(target=made.serve_forever, daemon=True).start()
  yield made.server_address[1]
  made.shutdown()
  made.server_close()


def test_slurm_starts_servers_then_trains_and_stops_them(
  noted, ready, tmp_path
):
  done = run(
    noted, 'launch/slurm.sbatch', 'MODEL', str(tmp_path / 'w'),
    '--config=experiments/quickstart.py', '--config.seed=1',
    SLURM_GPUS_ON_NODE='4', SLURM_JOB_NODELIST='x[1-2]', ARL_TP='4',
    ARL_PORT=str(ready),
  )  # fmt: skip
  assert done.returncode == 0, done.stderr
  calls = noted[1].read_text().splitlines()
  server = next(call for call in calls if 'sglang.sh' in call)
  assert '--nodelist=127.0.0.1 --gpus=4' in server
  assert f'launch/sglang.sh MODEL --port {ready} --host 0.0.0.0' in server
  assert '--tp-size 4' in server
  train = next(call for call in calls if 'launch.train' in call)
  assert '--nodelist=first' in train
  assert f'--config.engine.urls=http://127.0.0.1:{ready} ' in train
  assert f'--config.engine.folder={tmp_path}/w/weights' in train
  assert '--config.mesh.data=4 --config=experiments/quickstart.py' in train
  assert train.endswith('--config.seed=1 ')


def test_slurm_trains_on_several_nodes(noted, ready, tmp_path):
  (noted[0] / 'scontrol').write_text(
    '#!/bin/bash\nprintf "%s\\n" first second 127.0.0.1\n'
  )
  done = run(
    noted, 'launch/slurm.sbatch', 'MODEL', str(tmp_path / 'w'),
    SLURM_GPUS_ON_NODE='4', SLURM_JOB_NODELIST='x[1-3]', ARL_TP='4',
    ARL_PORT=str(ready), ARL_TRAINERS='2',
  )  # fmt: skip
  assert done.returncode == 0, done.stderr
  calls = noted[1].read_text().splitlines()
  train = next(call for call in calls if 'launch.train' in call)
  assert '--nodes=2 --ntasks=2 --gpus=8' in train
  assert 'first' in train and 'second' in train
  assert '--config.mesh.data=8 --coordinator=first:9876' in train
  assert '--processes=2' in train
  assert sum('sglang.sh' in call for call in calls) == 1


def test_slurm_tells_of_a_server_that_ended(noted, tmp_path):
  (noted[0] / 'srun').write_text('#!/bin/bash\nexit 3\n')
  done = run(
    noted, 'launch/slurm.sbatch', 'MODEL', str(tmp_path / 'w'),
    SLURM_GPUS_ON_NODE='1', SLURM_JOB_NODELIST='x', ARL_PORT='9',
  )  # fmt: skip
  assert done.returncode == 1
  assert 'the server http://127.0.0.1:9 ended; see its log' in done.stderr


def test_slurm_wants_a_node_for_sampling(noted, tmp_path):
  (noted[0] / 'scontrol').write_text('#!/bin/bash\necho first\n')
  done = run(
    noted, 'launch/slurm.sbatch', 'MODEL', str(tmp_path / 'w'),
    SLURM_GPUS_ON_NODE='1', SLURM_JOB_NODELIST='x',
  )  # fmt: skip
  assert done.returncode == 1 and 'ask for 2' in done.stderr


def test_tpu_copies_sets_up_and_runs_on_all_hosts(noted):
  done = run(
    noted, 'launch/tpu_pod.sh', 'pod', 'zone-a',
    'python', '-m', 'launch.train', '--workdir=a b',
  )  # fmt: skip
  assert done.returncode == 0, done.stderr
  copied, set_up, ran = noted[1].read_text().splitlines()
  assert 'scp' in copied and 'pod:arl.tar.gz' in copied
  assert all('--worker=all' in call for call in (copied, set_up, ran))
  assert all('--zone=zone-a' in call for call in (copied, set_up, ran))
  assert 'tpu' in set_up
  assert 'launch.train' in ran and 'JAX_PLATFORMS=tpu' in ran


def test_usage():
  for script in ('launch/tpu_pod.sh', 'launch/sglang.sh'):
    done = subprocess.run(
      [ROOT / script], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode and f'usage: {script}' in done.stderr
