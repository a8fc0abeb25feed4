"""What every room stands on: settings, files, processes and the errors that the command line turns into exit statuses."""
