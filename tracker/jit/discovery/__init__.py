"""What a function's code can read and call, found from its bytecode before it is traced.

Start at `discovery.py`.
"""
