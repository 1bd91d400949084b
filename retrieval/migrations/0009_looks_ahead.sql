-- Whether a wider set was prepared beside the attempt's own (streaming/prospects.py).
ALTER TABLE decision ADD COLUMN looks_ahead boolean;
