"""How course-model and course-draft were made: corpus, tokenizer, training, scaling runs, export.

    python -m training.corpus LIB      # split the standard library of CPython 3.11, write data/ and the token files
    python -m training.train course-model
    python -m training.train course-draft
    python -m training.scaling
    python -m training.export

Nothing here runs in the tests except on toy sizes: the checkpoints are committed.
"""
