"""What takes long (verify, search, statistics), in a process of its own: no key press waits for it.

    screen  ── Run.go() ──  stdin: the job     >  python -m inspector.background.child
            <─ frames ────  stdout: length | pickled Frame | length | pickled Frame ...

A thread beside the screen's would hold Python's lock for milliseconds at a time; a process does not, runs at a lower
priority, and can be ended at any moment. `jobs` says what is done, `child` does it, `runs` is what screens look at.
"""
