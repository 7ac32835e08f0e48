"""Images, sound and labels from files, and the models that ship with pylite."""
