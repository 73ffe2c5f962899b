"""Commands of the form ``silkline NOUN VERB``, one module for each noun."""
