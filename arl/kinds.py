"""The structural kinds of a sampled token, for methods that weigh them."""

OTHER, FORMAT, THINK, NAME, ARGUMENTS = range(5)
