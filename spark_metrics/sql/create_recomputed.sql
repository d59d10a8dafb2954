create unlogged table {schema}.{table} (like {table}{indexes})
