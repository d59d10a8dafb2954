"""Local emulators of AWS services: Lambda, event sources, schedules, API Gateway, SNS push, LocalStack plug-ins."""
