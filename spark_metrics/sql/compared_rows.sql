create temporary table {copy} as select {columns} from {rows} where {scope}
