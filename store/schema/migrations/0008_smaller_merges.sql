ALTER TABLE http_requests_1m MODIFY SETTING max_parts_to_merge_at_once = 6;

ALTER TABLE http_requests_1h MODIFY SETTING max_parts_to_merge_at_once = 6;

ALTER TABLE http_requests_1d MODIFY SETTING max_parts_to_merge_at_once = 6;

ALTER TABLE http_requests_1mo MODIFY SETTING max_parts_to_merge_at_once = 6;

ALTER TABLE http_colos_1m MODIFY SETTING max_parts_to_merge_at_once = 6;

ALTER TABLE http_colos_1h MODIFY SETTING max_parts_to_merge_at_once = 6;

ALTER TABLE http_colos_1d MODIFY SETTING max_parts_to_merge_at_once = 6;

ALTER TABLE http_colos_1mo MODIFY SETTING max_parts_to_merge_at_once = 6;
