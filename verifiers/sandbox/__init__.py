"""Where solutions run: a fork server that starts a confined process for each, and never knows what is expected.

Nothing is imported here: the fork server loads this package too, and what it does not map makes each fork cheaper.
"""
