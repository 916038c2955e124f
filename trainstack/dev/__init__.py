"""For contributors: releases, the documentation's site and pictures of terminals."""
