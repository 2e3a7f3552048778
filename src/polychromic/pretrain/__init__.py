"""From nothing to a base policy: demonstrations, behaviour cloning, scores on the fine-tuning configurations."""
