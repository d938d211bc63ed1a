"""The sections of RESULTS.md.

Of each: the name of its table and figures in results/, its title, the command
that remakes them, and what they are.
"""

SECTIONS = (
  (
    'baselines',
    'Published baselines on one task',
    'python -m experiments.results',
    'The files of experiments/baselines/ from the same warm starts.',
  ),
  (
    'quickstart',
    'The quickstart in full',
    'python -m experiments.studies.quickstart',
    'Held-out success of `experiments/quickstart.py` before and after 40 steps'
    ' from the same warm starts, by changing `method=`: the mean over seeds 0,'
    ' 1, 2 and its 95 % t interval; each evaluation has 512 fresh tasks. The'
    ' seconds are those of a run that shares two cores with another.',
  ),
  (
    'http_rollouts',
    'Rollouts over HTTP',
    'python -m experiments.studies.http_rollouts',
    'The same 200 episodes of the quickstart through the engine in process and'
    ' through the embedded server, and 64 greedy continuations of fresh models'
    ' through SGLang on a CPU in float32; then the quickstart trained for 42'
    ' updates with each engine, seed 0: held-out success, and the largest'
    ' difference and the correlation of the log-probs of trainer and engine'
    ' over the batches, of about 10,000 tokens, after so many updates of the'
    ' weights.',
  ),
  (
    'harness',
    'An agent from outside',
    'python -m experiments.studies.harness',
    'The quickstart with an agent written against the `openai` package alone,'
    ' as a program of its own in front of the proxy: the mean over seeds 0, 1,'
    ' 2 and its 95 % t interval. Before and after are held-out tasks, played'
    ' without the agent; the batches are its own episodes, the first and the'
    ' last five of 40. The seconds are those of two cores that other work kept'
    ' busy.',
  ),
  (
    'environments',
    'Environments: oracles, chance and speed',
    'python -m experiments.studies.environments',
    'Mean score over 1,000 tasks each, half of them held out, of the oracle, of'
    ' well-formed actions at random and of the noisy demonstrator, with 95 %'
    ' bootstrap intervals, within the turns that the oracle may need.',
  ),
  (
    'credit',
    'Which credit is near the truth',
    'python -m experiments.studies.credit',
    "The correlation of a turn's credit with the exact advantage of its action,"
    " on FrozenLake's 4x4 map, by dynamic programming with a discount of 0.95:"
    ' a half-trained policy that succeeds in 57 % of its episodes on plain ice'
    ' and in 15 % on slippery ice; 200 groups of 8 and 50 groups of 32'
    ' rollouts, with 95 % bootstrap intervals over groups. VinePPO plays on'
    ' nine times from every turn, and turn GAE has a critic whose error has a'
    ' deviation of 0.05.',
  ),
  (
    'chains',
    'Who still learns on long chains',
    'python -m experiments.studies.chains',
    'Chains of locked doors with one reward at the end, from a table of logits'
    ' that follows the oracle half of the time: success on 256 held-out tasks'
    ' once as many tokens are sampled as 3,200 episodes of full length have,'
    ' and the sampled tokens after which half of 64 held-out tasks succeeded.'
    ' Means over seeds with their 95 % t intervals. Branches that are not'
    ' trained on count. The learning rate is the same for all.',
  ),
  (
    'full_stack',
    'The stack of the surveys',
    'python -m experiments.studies.full_stack',
    'ARPO rollouts, GiGPO, a ratio of the sequence, bounds that differ and'
    ' StarPO-S together against GRPO, 40 batches each from the same warm starts'
    ' on key-door chains: success on 256 held-out tasks once both have sampled'
    ' as many tokens (between evaluations, interpolated), and on 512 at the'
    ' end. What branches share is sampled once. Means over seeds with their'
    ' 95 % t intervals.',
  ),
  (
    'choosing',
    'Which prompts, which groups and what again',
    'python -m experiments.studies.choosing',
    'No model: 300 prompts whose chances of success are known and drift, 24'
    ' chosen at a time, eight rollouts each; a pool that is learnt until its'
    ' mean success is reached; a bandit over prompts whose policy can forget'
    ' what it is asked; and a replay whose process is killed at random. Errors'
    ' are those of the success that a curriculum expects. Means over seeds with'
    ' their 95 % t intervals.',
  ),
  (
    'scheduling',
    'What rollouts wait for, and where they go',
    'python -m experiments.studies.scheduling',
    'No model: rollouts of heavy-tailed length on a clock of its own. Windows'
    ' over their order: what of the time the trainer waits, how far the lengths'
    ' that it sees are from those that were issued (Kolmogorov and Smirnov),'
    ' and the furthest that one overtook. The gate of staleness by the versions'
    ' that it allows. And requests to four servers: prefix tokens found in a'
    ' cache from the second turn on, and the fullest server by the mean.',
  ),
  (
    'retrying',
    'Going back into rollouts',
    'python -m experiments.studies.retrying',
    'Resets: a chain of ten forks, at one of which the policy, a table, is'
    ' right in 5 % of its tries and elsewhere in 97 %; 4 of 8 rollouts start'
    ' from the prompt, the others where the method goes back to. Insight is how'
    " often the policy's own answer is its first mistake, which is simulated;"
    ' tokens of answers count. Retries: a chain of two doors within 14 turns,'
    ' by a simulated policy that learns from a failure in which rooms it saw'
    ' keys. Along an expert: 12 batches of 8 episodes of the forks, four'
    ' answers to each step. Branches: drawn responses of 180 tokens, two of'
    ' which decide: they are as uncertain as eight turns of phrase, and the 32'
    ' tokens after them are likelier to the policy than to the reference by the'
    ' gain, in nats a token, under noise of deviation 1. Means over seeds with'
    ' their 95 % t intervals.',
  ),
  (
    'steering',
    'Rollouts that are steered',
    'python -m experiments.studies.steering',
    'Each strategy against independent chains of the same randomness, on 32'
    ' held-out tasks, from the warm starts of the key-door chain and of the'
    ' tool task and from what DAPO makes of the former in 40 batches; nothing'
    ' else is trained, and the intervals are over tasks. Tokens, calls and gaps'
    ' are of the strategy over, or less, those of the chains; what is thrown'
    ' away is counted. A false stop is a task that was stopped and whose'
    ' sixteen chains would have earned different rewards; a cut is right where'
    ' the eight would have earned the same. Temperatures: the largest gap of a'
    ' log-prob of the sampler to the score at its own temperature, and at 1.'
    ' Beams are of the first four tasks.',
  ),
  (
    'ceiling',
    'Does RL widen what a policy can do',
    'python -m experiments.studies.ceiling --seeds=2',
    "The quickstart's warm start (the base) and what DAPO makes of it: 64"
    ' held-out tasks a seed, 64 samples a task at temperature 1, both with the'
    ' same tools, prompts and limits; means over tasks with 95 % bootstrap'
    ' intervals. The crossing is the least k from which on the base is not'
    ' behind. The toy is a policy over four answers, credited as GRPO does: it'
    ' gives the right answer to half of the problems with a chance of 1e-3.'
    ' Nothing is said here of other models or tasks.',
  ),
  (
    'doctor',
    'Planted faults, and what the doctor says',
    'python -m experiments.studies.doctor --seeds=2',
    'Short runs of a small world, healthy and with a fault each, and the'
    ' quickstart as it is: which sign was told first at which step, and which'
    ' others, with the sign that explains each.',
  ),
  (
    'chaos',
    'Kills, damage and lost parts',
    'python -m experiments.studies.chaos',
    'Real processes of the training command, killed by SIGKILL at moments'
    ' that a seed draws and started again by the same command until they were'
    ' over; on a CPU. The columns in between say in what a kill hit; a'
    ' checkpoint is written in the background, so that is counted beside.'
    ' Identical is: every bit of parameters and optimizer, and all that a'
    ' checkpoint knows, metrics, samples, results; where rollouts run ahead,'
    ' that every group chosen was trained on once, given up and counted, or'
    ' was on its way. Then what else can happen to a run, its last words, and'
    ' whether the same command, run in peace after it, leaves what a run'
    ' leaves that nothing happened to. A clock that jumps is that of Python.',
  ),
  (
    'worlds',
    'Environments: what RL adds',
    'python -m experiments.studies.worlds',
    'A model of 0.3 million parameters imitates a demonstrator who often fails,'
    ' and is then trained by DAPO on what it earns itself: held-out success of'
    ' 512 fresh tasks.',
  ),
  (
    'smollm2_evals',
    'A pretrained model on problems of other libraries',
    'python -m experiments.studies.smollm2_evals',
    'SmolLM2-135M-Instruct without training, greedy, 40 problems each: the'
    ' share solved and its 95 % Wilson interval, as they are and (`_shown`)'
    ' after one that is solved. It answers calls of functions in prose, and its'
    ' sums are wrong: this is where training would begin.',
  ),
  (
    'verifiers',
    'Verifiers under answers that do not end',
    'python -m experiments.studies.verifiers',
    'Answers a second of a pool of two workers, among them some that a deadline'
    ' has to end.',
  ),
  (
    'controls',
    'Negative controls',
    'python -m experiments.studies.controls',
    'The same with a part taken out on purpose: the loss also on what the'
    ' environment said, and rewards dealt out at random within a batch.',
  ),
  (
    'layer_contribution',
    'What each block contributes',
    'python -m launch.layer_contribution',
    'The same with the parameters of one block trained alone: the contribution'
    ' is its share of the gain of training everything, a mean over the seeds'
    ' with its 95 % t interval.',
  ),
  (
    'offpolicy',
    'Stale rollouts and unlike samplers',
    'python -m experiments.studies.offpolicy',
    'Held-out success, sampled, after 20 batches (40 updates) of 128 episodes:'
    ' interquartile mean over seeds 0, 1, 2 and its 95 % interval. Rollouts 4'
    ' and 16 updates old come from parameters of two and eight batches before.'
    ' Noisy log-probs are off by 0.3 nats a token in what the sampler reports;'
    ' to what does not read them, such as the first two rows, these are fresh'
    ' rollouts.',
  ),
  (
    'preferences',
    "Preferences among the policy's own episodes",
    'python -m experiments.studies.preferences',
    'From the warm starts of the quickstart, 20 batches of 128 episodes, the'
    ' best of a task preferred to its worst: held-out success of 256 tasks; how'
    ' often the trained policy puts the better of two episodes of the warm'
    ' start first, of tasks it has not seen, by its implicit reward and by the'
    ' mean log-prob; and the length of its episodes. Means over seeds with'
    ' their 95 % t intervals.',
  ),
  (
    'distillation',
    'A teacher in place of rewards',
    'python -m experiments.studies.distillation',
    'Students from the warm starts of the quickstart, 40 batches of 32'
    ' episodes each; the teacher is the same agent after 6 batches of rewards:'
    ' held-out success of 256 tasks, how far it is over that of the teacher,'
    " the KL to the teacher on the policy's own tokens, and the tokens sampled"
    ' until four batches have 95 % of the success of the teacher. Means over'
    ' seeds with their 95 % t intervals.',
  ),
  (
    'self_distillation',
    'A policy as its own teacher, told more',
    'python -m experiments.studies.self_distillation',
    'From warm starts that read hints, 20 batches of 128 episodes. To check is'
    ' to call a tool and not to guess; a gap is by how many nats a token what'
    ' the policy said is likelier to it when it is told more, in the way of the'
    ' second column. Means over seeds with their 95 % t intervals.',
  ),
  (
    'pipelines',
    'Stages after each other',
    'python -m experiments.studies.pipelines',
    'Held-out success, sampled, before and after each stage of the orders in'
    ' experiments/pipelines/, on the tool task of the quickstart; and that of'
    ' DAPO alone from the same start at as many sampled tokens as'
    ' Sparse-to-Dense takes. Means over seeds.',
  ),
  (
    'critics',
    'Critics, and what rewards can tell',
    'python -m experiments.studies.critics',
    'Critics on trunks of their own, from the warm starts of the quickstart: 40'
    ' batches of 256 rollouts, one a prompt, against as many of DAPO with eight'
    ' a prompt. Explained is the share of the variance of returns that a critic'
    ' knew, in the first batch and in the last ten; `pretrained` begins with'
    ' values that were learnt in 50 batches of the warm start, whose tokens are'
    ' not counted. Then reward models, learnt from 30 batches of the warm'
    " start's rollouts: accuracy on the first and the last ten batches, each"
    ' before it was learnt from. Means over seeds.',
  ),
  (
    'smollm2',
    'A pretrained model',
    'python -m experiments.studies.smollm2',
    'SmolLM2-135M-Instruct learns to call a calculator through its own chat'
    ' template, on a CPU.',
  ),
)
