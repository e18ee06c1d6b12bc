"""Attacks on graphs: each a value that, called with a graph and a budget, returns the changes it would make."""

from garnet.attacks.base import Attack, Stop, Task
from garnet.attacks.budget import Budget
from garnet.attacks.dice import DICE
from garnet.attacks.random import Random

__all__ = ["DICE", "Attack", "Budget", "Random", "Stop", "Task"]
