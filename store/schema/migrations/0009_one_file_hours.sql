ALTER TABLE http_requests_1m MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_requests_1h MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_requests_1d MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_requests_1mo MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_requests_1h MODIFY SETTING min_bytes_for_wide_part = 2147483648;

ALTER TABLE http_requests_1h MODIFY SETTING max_parts_to_merge_at_once = 15;

ALTER TABLE http_requests_1d MODIFY SETTING min_bytes_for_wide_part = 2147483648;

ALTER TABLE http_requests_1d MODIFY SETTING max_parts_to_merge_at_once = 15;

ALTER TABLE http_requests_1mo MODIFY SETTING min_bytes_for_wide_part = 2147483648;

ALTER TABLE http_requests_1mo MODIFY SETTING max_parts_to_merge_at_once = 15;

ALTER TABLE http_colos_1m MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_colos_1h MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_colos_1d MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_colos_1mo MODIFY SETTING min_compress_block_size = 16384;

ALTER TABLE http_colos_1h MODIFY SETTING min_bytes_for_wide_part = 2147483648;

ALTER TABLE http_colos_1h MODIFY SETTING max_parts_to_merge_at_once = 15;

ALTER TABLE http_colos_1d MODIFY SETTING min_bytes_for_wide_part = 2147483648;

ALTER TABLE http_colos_1d MODIFY SETTING max_parts_to_merge_at_once = 15;

ALTER TABLE http_colos_1mo MODIFY SETTING min_bytes_for_wide_part = 2147483648;

ALTER TABLE http_colos_1mo MODIFY SETTING max_parts_to_merge_at_once = 15;

ALTER TABLE http_requests_1m MODIFY SETTING merge_selector_base = 5;

ALTER TABLE http_requests_1h MODIFY SETTING merge_selector_base = 3;

ALTER TABLE http_requests_1d MODIFY SETTING merge_selector_base = 2;

ALTER TABLE http_requests_1mo MODIFY SETTING merge_selector_base = 2;

ALTER TABLE http_colos_1m MODIFY SETTING merge_selector_base = 5;

ALTER TABLE http_colos_1h MODIFY SETTING merge_selector_base = 3;

ALTER TABLE http_colos_1d MODIFY SETTING merge_selector_base = 2;

ALTER TABLE http_colos_1mo MODIFY SETTING merge_selector_base = 2;
