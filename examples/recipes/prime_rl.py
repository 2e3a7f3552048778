"""prime-rl: an algorithm, in the place of GRPO's. `[orchestrator.algo] type = "grpo"`, and import this module first.

prime-rl wants a new algorithm to be a class in its own registry, and checks configurations against its own names, so
this one takes the name 'grpo'. `filter_zero_advantages` may stay on.
"""

from prime_rl.orchestrator import algo
from prime_rl.orchestrator.algo.base import iter_trainable_traces
from prime_rl.orchestrator.algo.routing import assign_advantages

from polychromic import polychromic_advantages
from polychromic.integrations.keys import calculations as key  # yours

SET_SIZE = 4


class PolychromicAlgorithm(algo.GRPOAlgorithm):
    async def score_group(self, episodes):
        traces = [trace for _, trace in iter_trainable_traces(episodes)]
        if len(traces) <= SET_SIZE:  # too few are left for two sets
            advantages = [0.0] * len(traces)
        else:
            answers = [key(_written(trace)) for trace in traces]
            advantages = polychromic_advantages([t.reward for t in traces], answers, set_size=SET_SIZE).tolist()
        for trace, advantage in zip(traces, advantages, strict=True):
            assign_advantages(trace, advantage)


def _written(trace):
    """What the model wrote; which attribute holds it depends on the version of verifiers."""
    return "\n".join(str(message.content) for message in trace.messages if message.role == "assistant")


algo.ALGORITHM_CLASSES["grpo"] = PolychromicAlgorithm
