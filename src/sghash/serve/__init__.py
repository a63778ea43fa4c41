"""Collections over HTTP: the verbs of `Collection`, limits, keys, and what operators need.

`app.create_app` makes the application, `running.serve` runs it. Needs the extra `serve`.
"""
