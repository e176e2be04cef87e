//! Starting the processes of a job, and seeing to their end.
