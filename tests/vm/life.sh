#: seconds 60
life
