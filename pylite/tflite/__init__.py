"""The parts of tf.lite's interface: checked arguments, dictionaries of details, signature runners."""
