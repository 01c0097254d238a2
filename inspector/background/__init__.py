"""What takes long (verify, search, statistics), in a process of its own: no key press waits for it.

    screen  ── runs.start() ──  conn: the job  >  forked from a process where everything is imported
            <─ frames ────────  length | pickled Frame | length | pickled Frame ...

A thread beside the screen's would hold Python's lock for milliseconds at a time; a process does not, runs at a lower
priority, and can be ended at any moment. `jobs` says what is done, `child` forks and does it, `server` has it begun,
`runs` is what screens look at.
"""
