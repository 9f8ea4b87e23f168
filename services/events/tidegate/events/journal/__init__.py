"""The local log of one worker: append, open attempts, durability, orphan settlement."""
