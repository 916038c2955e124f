"""The changes of a pull request, from previews or from the difference of files, as one comment.

Read report.py before you edit: its docstring explains which side may trust which data.
"""
