"""What each screen asks of a log, answered in windows and in bounded memory, beside whoever writes it.

Nothing here raises for what is on disk: what cannot be read is told in the answer (`problem`).
"""
