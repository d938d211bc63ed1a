"""arl: agentic reinforcement learning for language models, in functional JAX.

The front door: the types and the two functions that a new method needs.
"""

from arl.levels import Level as Level
from arl.methods import make as make
from arl.methods.binding import on as on
from arl.methods.compose import Objective as Objective
from arl.methods.compose import Term as Term
from arl.methods.compose import method as method
from arl.types import Batch as Batch
from arl.types import Method as Method
