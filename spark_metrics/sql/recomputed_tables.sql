select relname from pg_class where relnamespace = to_regnamespace('{schema}') and relkind = 'r'
