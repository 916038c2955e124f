from trainstack.errors import TrainstackError


class ClusterError(TrainstackError):
    """The local cluster cannot do what was requested; the text gives the cause and the remedy."""
