"""Build and push the images of runs, with the image tool of this machine or for the local cluster."""
