"""What tokens and steps are: numbers that cross from the host to the device."""

# The structural kinds of a sampled token, for methods that weigh them.
OTHER, FORMAT, THINK, NAME, ARGUMENTS = range(5)

# What a step is in the episode of an expert: it finds out, it decides, or it
# decides what the episode is about.
EVIDENCE, DECISION, INTENT = range(3)
