"""What tf.lite's interface is made of: checked arguments, dictionaries of details, signatures."""
