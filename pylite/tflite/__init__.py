"""What Interpreter needs to look like tf.lite's: checked arguments, dictionaries of details, signature runners."""
