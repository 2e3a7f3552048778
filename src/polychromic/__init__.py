"""Set reinforcement learning: fine-tune a pretrained policy with RL without collapsing it."""

__version__ = "0.1.0"
