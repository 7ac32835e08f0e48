"""The parts of tf.lite's interface: checked arguments, dictionaries of details, signature runners."""

MOST_THREADS = 1024     # of one interpreter
