"""Agents as their users wrote them: they know an OpenAI endpoint, not arl."""
